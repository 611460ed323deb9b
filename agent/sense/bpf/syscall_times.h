// SPDX-License-Identifier: MIT OR GPL-2.0
//
// What is counted of system calls. `src/sensors/syscall_times/sensor.rs` reads it.
#pragma once

#include "buckets.h"

// What calls do; 0 is none of them. In the order of `OPERATIONS` of the agent.
enum { READ = 1, WRITE, SYNC, RECEIVE, SEND, COPY, OPERATIONS };

struct series {
	__u64 calls;
	__u64 bytes;
	__u64 errors;
	__u64 time_ns;  // from their begin to their end
	__u32 times[BUCKETS];
};
