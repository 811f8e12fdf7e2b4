"""Devices that execute a compiled candidate behind one protocol."""
