"""What happened: events, recorder, reader and views."""
