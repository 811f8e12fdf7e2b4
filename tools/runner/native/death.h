#pragma once

namespace runner {

// From now on a crash says its signal and address before the process ends. The orchestrator's
// SIGALRM makes the running kernel stop at its next back-edge, by calling `expire`.
void announce_deaths(void (*expire)());

}  // namespace runner
