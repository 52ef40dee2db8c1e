// The time of day, for chat templates that print it.
#pragma once

#include "text/template_engine.h"

namespace baton {

// Now, in the time zone of this machine.
CivilTime LocalTimeNow();

}  // namespace baton
