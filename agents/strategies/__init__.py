"""Strategies that ship."""
