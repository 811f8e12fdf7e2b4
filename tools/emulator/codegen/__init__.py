"""PTX to C++: one resumable function a kernel."""
