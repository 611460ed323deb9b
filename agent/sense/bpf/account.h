// SPDX-License-Identifier: MIT OR GPL-2.0
//
// What a CPU is accounted for. `src/exact/account.rs` reads it as an array of 64-bit words in this order.
#pragma once

// Classes, in the order of `ns`. Soft interrupts follow, one a vector in the kernel's order (HI is 0).
enum { APP, OTHER, IDLE, HARDIRQ, SOFTIRQ };

// Vectors that there is room for; the kernel has 10 since 2016.
#define VECTORS 16

struct account {
	__u64 until_ns;               // accounted up to this instant of CLOCK_MONOTONIC
	__u64 events;                 // events handled
	__u64 ns[SOFTIRQ + VECTORS];  // time in each class
	__u64 softirqs[VECTORS];      // times that each vector ran
	__u64 sample_ns;              // time of the interrupts that carried samples
	__u64 samples;                // samples that found a task of the agent, outside of soft interrupts
	__u64 user_samples;           // of them in user mode
	__u64 polls;                  // polls of network devices
	__u64 packets;                // packets that these took
	__u64 full_polls;             // polls that took as many as they may
	__u64 wakeups;                // tasks woken
	__u64 contentions;            // waits for a kernel lock by a task of the agent
	__u64 contended_ns;           // time of these waits
	__u64 syscalls;               // system calls of the agent
};

// Agents of one machine that there is room for: each is a member of those whom the accounting is for.
#define MEMBERS 128

// What `control` is told to do, each with the member's number, and what it answers.
enum { JOIN, BEGIN, READ, END, LEAVE };
enum { DONE, BUSY, FAILED };

// What an agent that attached the programs says of them. `src/exact/shared.rs` reads and writes it as 64-bit words.
struct offer {
	__u64 build;  // the same object file has the same; 0: not for others
	__u64 links;  // tracepoints that the accounting is attached to
	__u64 absent; // those of processor interrupts that this kernel does not have, by bits in the order of `VECTORS`
};
