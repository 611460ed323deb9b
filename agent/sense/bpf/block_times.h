// SPDX-License-Identifier: MIT OR GPL-2.0
//
// What is counted of operations of the block layer. `src/blocks/times.rs` reads it.
#pragma once

#include "buckets.h"

// Devices, operations and classes of size that there is room for together.
#define SERIES 64
// Classes of size: up to 4 KiB, 8 KiB, ... 1 MiB, and more.
#define CLASSES 10
// Processes that have operations begun, at places of their own and besides; what others begin is counted with their series only.
#define PROCESSES 256
// Places of operations in flight, near and far: as many near ones as have room in 16 KiB, and as many far ones as fast devices
// have requests, a few times over, so that few share one.
#define PLACE_BITS 9
#define PLACES (1 << PLACE_BITS)
#define FAR_BITS 14
#define FAR_PLACES (1 << FAR_BITS)

// From here on an operation is slow, from when it was made to its end. chosen: longer than a seek and a turn of a disk of
// 7200 turns a minute take together, so that beyond it something waited.
#define SLOW_NS 20000000ULL

// Why an operation is in no series.
enum { NO_ROOM, UNSEEN, BEGUN_BEFORE, REASONS };

// What a series is of, in a word: its device (major << 20 | minor, as the kernel's own dev_t), `enum req_op` of
// linux/blk_types.h, class of size, and a bit that says that it is one.
#define OPERATION_AT 32
#define CLASS_AT 48
#define KNOWN (1ULL << 63)

struct series {
	__u64 operations;
	__u64 bytes;
	__u64 errors;
	__u64 slow;
	__u64 queue_ns;    // from when they were made to when they were handed to the device
	__u64 service_ns;  // from there to their completion
	struct {
		__u32 queue;
		__u32 service;
	} times[BUCKETS];  // side by side: short times of both lie on one page
};

struct process {
	__u64 operations;
	__u64 bytes;
	char name[16];
	__u64 id;  // one more than its own; 0: nobody has this place
};

// All of them in one value, which the agent has with one call.
struct processes {
	struct process at[PROCESSES];
};

struct slow_operation {
	__u64 made_ns;
	__u64 issued_ns;
	__u64 ended_ns;
	__u64 sector;
	__u64 kind;
	__u64 bytes;
};
