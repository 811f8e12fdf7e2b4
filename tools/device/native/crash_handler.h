#pragma once

namespace runner {

// From now on a crash says its signal and address before the process ends.
void report_crashes();

// The orchestrator's SIGALRM makes the running kernel stop at its next back-edge, by calling `expire`.
void obey_alarms(void (*expire)());

}  // namespace runner
