// SPDX-License-Identifier: MIT OR GPL-2.0
//
// Every operation of the block layer, from when it is queued or handed to the device to its completion.
//
// Raw tracepoints, and the kernel's own structures by its type information (BTF): their fields are found when the program
// is loaded, wherever this kernel has them.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
};

#pragma clang attribute pop

// What is known of an operation until it is complete.
struct begun {
	__u64 queued_ns;
	__u64 issued_ns;
	__u64 sector;
	__u32 bytes;
	__u32 operation;
	__u32 process;
	__u32 user;
	char name[16];
	__u32 given_back;  // by the device: what comes next is its second hand-over
};

// An operation, as `src/blocks/events.rs` reads it: 64-bit words, then 32-bit words, then the name.
struct event {
	__u64 queued_ns;
	__u64 issued_ns;
	__u64 ended_ns;
	__u64 sector;
	__u32 bytes;
	__u32 operation;
	__u32 process;
	__u32 user;
	__u32 major;
	__u32 minor;
	char name[16];
};

// As many as devices have in flight, by the request's address.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct begun);
} under_way SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

// Operations that could not be told: 0 no room in the ring, 1 begun before the trace, 2 whose end was not seen. It may have come
// in an interrupt while another's was told on the same CPU, as the kernel runs no program inside of itself.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(__u32 kind)
{
	__u64 *counter = bpf_map_lookup_elem(&lost, &kind);

	if (counter)
		*counter += 1;
}

static __always_inline void describe(struct begun *begun, struct request *request)
{
	begun->sector = BPF_CORE_READ(request, __sector);
	begun->bytes = BPF_CORE_READ(request, __data_len);
	begun->operation = BPF_CORE_READ(request, cmd_flags);
	begun->process = bpf_get_current_pid_tgid() >> 32;
	begun->user = bpf_get_current_uid_gid();
	bpf_get_current_comm(begun->name, sizeof(begun->name));
}

SEC("raw_tracepoint/block_rq_insert")
int queued(struct bpf_raw_tracepoint_args *ctx)
{
	struct request *request = (struct request *)ctx->args[0];
	__u64 key = (__u64)request;
	struct begun begun = {}, *known;

	known = bpf_map_lookup_elem(&under_way, &key);
	if (known && known->given_back)
		return 0;
	if (known && known->issued_ns)
		count_lost(2);
	begun.queued_ns = bpf_ktime_get_ns();
	describe(&begun, request);
	bpf_map_update_elem(&under_way, &key, &begun, BPF_ANY);
	return 0;
}

SEC("raw_tracepoint/block_rq_issue")
int issued(struct bpf_raw_tracepoint_args *ctx)
{
	struct request *request = (struct request *)ctx->args[0];
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct begun *known = bpf_map_lookup_elem(&under_way, &key);
	struct begun begun = {};

	if (known && !known->issued_ns) {
		known->issued_ns = now;
		known->given_back = 0;
		// It may have been merged with others since it was queued.
		known->sector = BPF_CORE_READ(request, __sector);
		known->bytes = BPF_CORE_READ(request, __data_len);
		return 0;
	}
	// The kernel uses the same requests over and over: this is another operation, whose time is its own.
	if (known)
		count_lost(2);
	// Without a scheduler requests are issued at once.
	begun.queued_ns = now;
	begun.issued_ns = now;
	describe(&begun, request);
	bpf_map_update_elem(&under_way, &key, &begun, BPF_ANY);
	return 0;
}

SEC("raw_tracepoint/block_rq_requeue")
int given_back(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 key = (__u64)ctx->args[0];
	struct begun *known = bpf_map_lookup_elem(&under_way, &key);

	if (known && known->issued_ns) {
		known->issued_ns = 0;
		known->given_back = 1;
	}
	return 0;
}

SEC("raw_tracepoint/block_rq_complete")
int completed(struct bpf_raw_tracepoint_args *ctx)
{
	struct request *request = (struct request *)ctx->args[0];
	__u64 key = (__u64)request;
	struct begun *begun;
	struct event *event;
	struct gendisk *disk;

	// A part of it; the rest completes later.
	if ((__u32)ctx->args[2] < BPF_CORE_READ(request, __data_len))
		return 0;
	begun = bpf_map_lookup_elem(&under_way, &key);
	if (!begun) {
		// One that only waited for a flush of the device has none of its own, and nothing left to carry.
		if (BPF_CORE_READ(request, __data_len))
			count_lost(1);
		return 0;
	}
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_lost(0);
		bpf_map_delete_elem(&under_way, &key);
		return 0;
	}
	disk = BPF_CORE_READ(request, q, disk);
	event->queued_ns = begun->queued_ns;
	event->issued_ns = begun->issued_ns;
	event->ended_ns = bpf_ktime_get_ns();
	event->sector = begun->sector;
	event->bytes = begun->bytes;
	event->operation = begun->operation;
	event->process = begun->process;
	event->user = begun->user;
	event->major = BPF_CORE_READ(disk, major);
	event->minor = BPF_CORE_READ(disk, first_minor);
	__builtin_memcpy(event->name, begun->name, sizeof(event->name));
	// The reader comes by itself every few milliseconds: a wake-up for each would cost more than all else.
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	bpf_map_delete_elem(&under_way, &key);
	return 0;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
