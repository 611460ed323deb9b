// SPDX-License-Identifier: MIT OR GPL-2.0
//
// How long operations of the block layer take, counted where they end: no event leaves the kernel but the slow ones.
//
// Programs at typed tracepoints (BTF), which read the kernel's structures as they are: fields are found when a program is
// loaded, wherever this kernel has them. What is known of an operation stays in the map from one operation to the next, as
// the kernel uses the same requests over and over: so nothing is inserted or deleted under load.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "block_times.h"

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
	__u64 start_time_ns;
};

#pragma clang attribute pop

// An operation under way, by the address of its request. `issued_ns` 0: not at the device.
struct begun {
	__u64 issued_ns;
	struct series_key series;
	__u32 given_back;
	__u32 told;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct begun);
} under_way SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SERIES);
	__type(key, struct series_key);
	__type(value, struct series);
} series SEC(".maps");

// A series in which nothing is counted: too large for a program's stack.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct series);
} empty SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8192);
} slow SEC(".maps");

// Operations that are in no series, by why.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} untold SEC(".maps");

// Since when the programs run: what was begun before cannot be known.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} since SEC(".maps");

static __always_inline void leave_out(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&untold, &reason);

	if (count)
		*count += 1;
}

static __always_inline __u64 since_ns(void)
{
	__u32 zero = 0;
	__u64 *found = bpf_map_lookup_elem(&since, &zero);

	return found ? *found : 0;
}

// Bits that a number takes.
static __always_inline __u32 bits_of(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) { bits += 32; value >>= 32; }
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	if (value >> 4) { bits += 4; value >>= 4; }
	if (value >> 2) { bits += 2; value >>= 2; }
	if (value >> 1) { bits += 1; value >>= 1; }
	return bits + value;
}

// Bucket of a time: exact below 2 << SUB_BITS, then 1 << SUB_BITS buckets an octave.
static __always_inline __u32 bucket_of(__u64 value)
{
	__u32 shift;

	if (value >> TOP_BITS)
		value = (1ULL << TOP_BITS) - 1;
	shift = bits_of(value >> (SUB_BITS + 1));
	return (shift << SUB_BITS) + (__u32)(value >> shift);
}

// What an operation is counted with. Class of its size: 0 up to 4 KiB, then one for each power of two.
static __always_inline struct series_key series_of(struct request *request)
{
	struct gendisk *disk = request->q->disk;
	__u32 bytes = request->__data_len;
	__u32 class = bytes ? bits_of((bytes - 1) >> 12) : 0;
	struct series_key key = {};

	key.device = ((__u32)disk->major << 20) | disk->first_minor;
	key.operation = request->cmd_flags & 0xff;
	key.class = class < CLASSES ? class : CLASSES - 1;
	return key;
}

static __always_inline struct series *counted(struct series_key key)
{
	struct series *known = bpf_map_lookup_elem(&series, &key);
	struct series *nothing;
	__u32 zero = 0;

	if (known)
		return known;
	nothing = bpf_map_lookup_elem(&empty, &zero);
	if (!nothing)
		return 0;
	bpf_map_update_elem(&series, &key, nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(&series, &key);
}

// Who has an operation begun: whoever runs when it is queued, or handed to the device where nothing queues.
static __always_inline void tell_process(struct request *request)
{
	__u32 id = bpf_get_current_pid_tgid() >> 32;
	struct process *known = bpf_map_lookup_elem(&processes, &id);

	if (!known) {
		struct process first = {};

		bpf_get_current_comm(first.name, sizeof(first.name));
		bpf_map_update_elem(&processes, &id, &first, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&processes, &id);
		if (!known)
			return;
	}
	known->operations += 1;
	known->bytes += request->__data_len;
}

static __always_inline struct begun *begun_of(__u64 key)
{
	struct begun none = {};
	struct begun *known = bpf_map_lookup_elem(&under_way, &key);

	if (known)
		return known;
	bpf_map_update_elem(&under_way, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&under_way, &key);
}

SEC("tp_btf/block_rq_insert")
int queued(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	struct begun *begun = begun_of(ctx[0]);

	if (!begun || begun->given_back)
		return 0;
	tell_process(request);
	begun->told = 1;
	return 0;
}

static __always_inline void hand_over(struct request *request, struct begun *begun)
{
	if (begun->given_back) {
		begun->given_back = 0;
	} else {
		// Its last completion was not seen, though the programs were there.
		if (begun->issued_ns && begun->issued_ns >= since_ns())
			leave_out(UNSEEN);
		if (!begun->told)
			tell_process(request);
		begun->told = 0;
	}
	begun->series = series_of(request);
	begun->issued_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/block_rq_issue")
int issued(__u64 *ctx)
{
	struct begun *begun = begun_of(ctx[0]);

	if (begun)
		hand_over((struct request *)ctx[0], begun);
	else
		leave_out(NO_ROOM);
	return 0;
}

// The kernel runs no program inside of itself: an operation that an interrupt hands over while `issued` runs on the same CPU
// is seen by this one alone. The same holds of `completed_inside`.
SEC("tp_btf/block_rq_issue")
int issued_inside(__u64 *ctx)
{
	__u64 key = ctx[0];
	struct begun *begun = bpf_map_lookup_elem(&under_way, &key);

	if (begun && begun->issued_ns && !begun->given_back)
		return 0;
	begun = begun_of(key);
	if (begun)
		hand_over((struct request *)ctx[0], begun);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int given_back(__u64 *ctx)
{
	__u64 key = ctx[0];
	struct begun *begun = bpf_map_lookup_elem(&under_way, &key);

	if (begun && begun->issued_ns) {
		begun->issued_ns = 0;
		begun->given_back = 1;
	}
	return 0;
}

static __always_inline void count(struct series *into, __u64 queue_ns, __u64 service_ns)
{
	__u32 bucket = bucket_of(service_ns);

	into->operations += 1;
	into->service_ns += service_ns;
	if (bucket < BUCKETS)
		into->service[bucket] += 1;
	into->queue_ns += queue_ns;
	bucket = bucket_of(queue_ns);
	if (bucket < BUCKETS)
		into->queue[bucket] += 1;
}

static __always_inline void end(__u64 *ctx, struct begun *begun)
{
	struct request *request = (struct request *)ctx[0];
	__u64 now = bpf_ktime_get_ns(), made_ns = request->start_time_ns, issued_ns = begun->issued_ns;
	__u32 bytes = request->__data_len;
	struct series *into;

	begun->issued_ns = 0;
	if (issued_ns < since_ns()) {
		leave_out(BEGUN_BEFORE);
		return;
	}
	into = counted(begun->series);
	if (!into) {
		leave_out(NO_ROOM);
		return;
	}
	// Made before it is handed on; the kernel may have read the clock a little earlier for several at a time.
	if (!made_ns || made_ns > issued_ns)
		made_ns = issued_ns;
	count(into, issued_ns - made_ns, now - issued_ns);
	into->bytes += bytes;
	if ((__u8)ctx[1])
		into->errors += 1;
	if (now - made_ns > SLOW_NS) {
		struct slow_operation *told = bpf_ringbuf_reserve(&slow, sizeof(*told), 0);

		into->slow += 1;
		if (told) {
			told->made_ns = made_ns;
			told->issued_ns = issued_ns;
			told->ended_ns = now;
			told->sector = request->__sector;
			told->bytes = bytes;
			told->series = begun->series;
			bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
		}
	}
}

SEC("tp_btf/block_rq_complete")
int completed(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	__u64 key = ctx[0], made_ns;
	__u32 bytes = request->__data_len;
	struct begun *begun;

	// A part of it; the rest completes later.
	if ((__u32)ctx[2] < bytes)
		return 0;
	begun = bpf_map_lookup_elem(&under_way, &key);
	if (begun && begun->issued_ns) {
		end(ctx, begun);
		return 0;
	}
	// One that only waited for a flush of the device has none of its own, and nothing left to carry.
	if (!bytes)
		return 0;
	made_ns = request->start_time_ns;
	leave_out(made_ns && made_ns >= since_ns() ? UNSEEN : BEGUN_BEFORE);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int completed_inside(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	__u64 key = ctx[0];
	struct begun *begun;

	if ((__u32)ctx[2] < request->__data_len)
		return 0;
	begun = bpf_map_lookup_elem(&under_way, &key);
	if (begun && begun->issued_ns)
		end(ctx, begun);
	return 0;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
