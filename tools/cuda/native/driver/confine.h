// What is left of the file system to a process that is about to load a candidate.
#pragma once

namespace driver {

// Reads pairs of `--ro`, `--rw` or `--dev` and a path up to `--`; the index of what follows it. Ends
// the process where there is something else.
int read_view(int count, char** arguments);

// From here on this process may open the paths of the view, and $TMPDIR, and nothing else; it has no
// privileges. Without a view or Landlock, all stays as it is. The driver of the GPU names its
// threads and looks itself up while it starts, so this comes after.
void confine();

}  // namespace driver
