// SPDX-License-Identifier: MIT OR GPL-2.0
//
// How long operations of the block layer take, counted where they end: no event leaves the kernel but the slow ones.
//
// Programs at typed tracepoints (BTF), which read the kernel's structures as they are: fields are found when a program is
// loaded, wherever this kernel has them. They run for every operation of a disk, so they do little: nothing is inserted or
// deleted under load, and what is looked up is at a place that is computed. The kernel uses the same requests over and over.
//
// The kernel's own stamp of the hand-over (`io_start_time_ns`) is no use: it is set only while a queue keeps statistics, and
// the clock for it is read once for all that a task hands over together (`blk_time_get_ns`), so that the wait of the later
// ones would look like the device's.

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

// An operation in flight. `issued_ns` 0: not at the device.
struct begun {
	__u64 request;
	__u64 issued_ns;
	__u32 bytes;
	__u8 number;  // of its series
	__u8 given_back;
	__u8 told;
	__u8 unused;
	__u64 also_unused;  // to a power of two: places are found by a shift
};

// By the address of the request: at the place that it gives, at the one beside it, at the same of the far places where others
// have both, or in the table, which is slow. Memory of the programs themselves needs no look-up; what is larger than 32 KiB
// the kernel maps page by page, and an operation may wait as long for the way to its page as for all else.
static struct begun places[PLACES];
static struct begun far_places[FAR_PLACES] SEC(".bss.far");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct begun);
} displaced SEC(".maps");

// What series are of, by their number, which the agent reads; `taken` decides between CPUs that want the same number.
// In a section of its own: the agent empties it together with `taken`, and leaves the places as they are.
static __u64 kinds[SERIES] SEC(".bss.kinds");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SERIES);
	__type(key, __u32);
	__type(value, __u64);
} taken SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SERIES);
	__type(key, __u32);
	__type(value, struct series);
} series SEC(".maps");

// Processes at the place that their number gives, and those whose place another one has.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct processes);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, struct process);
} other_processes SEC(".maps");

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

// What is rare is a function of its own, so that what is not lies close together.
#define RARE static __attribute__((noinline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

RARE void leave_out(__u32 reason)
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

// What an operation is counted with, never 0. Class of its size: 0 up to 4 KiB, then one for each power of two.
static __always_inline __u64 kind_of(struct request *request, __u32 bytes)
{
	struct gendisk *disk = request->q->disk;
	__u64 class = bytes ? bits_of((bytes - 1) >> 12) : 0;
	__u64 device = ((__u32)disk->major << 20) | (__u32)disk->first_minor;

	if (class >= CLASSES)
		class = CLASSES - 1;
	return KNOWN | class << CLASS_AT | (__u64)(request->cmd_flags & 0xff) << OPERATION_AT | device;
}

// A number for a kind that is not at the first one that it could have; `SERIES` where there is no room.
RARE __u32 another_number(__u64 kind, __u32 first)
{
	for (__u32 step = 0; step < SERIES; step++) {
		__u32 number = (first + step) % SERIES, key = number;
		__u64 *holder;

		if (kinds[number] == kind)
			return number;
		if (kinds[number])
			continue;
		bpf_map_update_elem(&taken, &key, &kind, BPF_NOEXIST);
		holder = bpf_map_lookup_elem(&taken, &key);
		if (!holder)
			return SERIES;
		kinds[number] = *holder;
		if (*holder == kind)
			return number;
	}
	return SERIES;
}

// Number of the series of a kind.
static __always_inline __u32 number_of(__u64 kind)
{
	__u32 first = (kind ^ kind >> OPERATION_AT ^ kind >> (CLASS_AT - 2)) % SERIES;

	return kinds[first] == kind ? first : another_number(kind, first);
}

RARE struct process *other_process(__u32 id)
{
	struct process *known = bpf_map_lookup_elem(&other_processes, &id);
	struct process first = {.id = id};

	if (known)
		return known;
	bpf_get_current_comm(first.name, sizeof(first.name));
	bpf_map_update_elem(&other_processes, &id, &first, BPF_NOEXIST);
	return bpf_map_lookup_elem(&other_processes, &id);
}

// The first operation of a process on a CPU, at a place that no other has there.
RARE void first_of_process(struct process *process, __u32 id)
{
	process->id = id;
	bpf_get_current_comm(process->name, sizeof(process->name));
}

// Who has an operation begun: whoever runs when it is queued, or handed to the device where nothing queues.
static __always_inline void tell_process(__u32 bytes)
{
	// One more than the process has, so that 0 is nobody's, not that of a CPU that idles.
	__u32 id = (__u32)(bpf_get_current_pid_tgid() >> 32) + 1, zero = 0;
	struct processes *known = bpf_map_lookup_elem(&processes, &zero);
	struct process *process;

	if (!known)
		return;
	process = &known->at[id % PROCESSES];
	if (UNLIKELY(process->id != id)) {
		if (process->id) {
			process = other_process(id);
			if (!process)
				return;
		} else {
			first_of_process(process, id);
		}
	}
	process->operations += 1;
	process->bytes += bytes;
}

static __always_inline __u32 place_of(__u64 request, __u32 bits)
{
	__u32 low;

	// The verifier lets nobody compute with an address, but its lower half is a number.
	asm volatile("%0 = %1" : "=w"(low) : "w"((__u32)request));
	// Knuth's multiplicative hashing, of addresses that are multiples of a cache line.
	return ((low >> 6) * 2654435761U) >> (32 - bits);
}

RARE struct begun *far_or_displaced(__u64 request)
{
	__u32 place = place_of(request, FAR_BITS);

	if (far_places[place].request == request)
		return &far_places[place];
	if (far_places[place ^ 1].request == request)
		return &far_places[place ^ 1];
	return bpf_map_lookup_elem(&displaced, &request);
}

// What is known of an operation that was begun.
static __always_inline struct begun *known(__u64 request)
{
	__u32 place = place_of(request, PLACE_BITS);

	if (places[place].request == request)
		return &places[place];
	if (places[place ^ 1].request == request)
		return &places[place ^ 1];
	return far_or_displaced(request);
}

static __always_inline int idle(struct begun *begun)
{
	return !begun->issued_ns && !begun->given_back && !begun->told;
}

// A place for an operation that has none. Of two CPUs that take one at once, the one is counted as unseen.
RARE struct begun *new_place(__u64 request)
{
	struct begun none = {.request = request};
	__u32 place = place_of(request, PLACE_BITS);

	if (!idle(&places[place]))
		place ^= 1;
	if (idle(&places[place])) {
		places[place].request = request;
		return &places[place];
	}
	place = place_of(request, FAR_BITS);
	if (!idle(&far_places[place]))
		place ^= 1;
	if (idle(&far_places[place])) {
		far_places[place].request = request;
		return &far_places[place];
	}
	bpf_map_update_elem(&displaced, &request, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&displaced, &request);
}

static __always_inline struct begun *begun_of(__u64 request)
{
	struct begun *begun = known(request);

	return begun ? begun : new_place(request);
}

SEC("tp_btf/block_rq_insert")
int queued(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	struct begun *begun = begun_of(ctx[0]);

	if (!begun || begun->given_back)
		return 0;
	tell_process(request->__data_len);
	begun->told = 1;
	return 0;
}

static __always_inline void hand_over(struct request *request, struct begun *begun)
{
	__u32 bytes = request->__data_len;

	if (begun->given_back) {
		begun->given_back = 0;
	} else {
		// Its last completion was not seen, though the programs were there.
		if (begun->issued_ns && begun->issued_ns >= since_ns())
			leave_out(UNSEEN);
		if (!begun->told)
			tell_process(bytes);
		begun->told = 0;
	}
	begun->bytes = bytes;
	begun->number = number_of(kind_of(request, bytes));
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
// is seen by this one alone. The same holds of `completed_inside`. Both are attached only where that happens.
SEC("tp_btf/block_rq_issue")
int issued_inside(__u64 *ctx)
{
	struct begun *begun = known(ctx[0]);

	if (begun && begun->issued_ns && !begun->given_back)
		return 0;
	begun = begun_of(ctx[0]);
	if (begun)
		hand_over((struct request *)ctx[0], begun);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int given_back(__u64 *ctx)
{
	struct begun *begun = known(ctx[0]);

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
		into->times[bucket].service += 1;
	into->queue_ns += queue_ns;
	bucket = bucket_of(queue_ns);
	if (bucket < BUCKETS)
		into->times[bucket].queue += 1;
}

static __always_inline void tell_slow(
	__u32 number, __u64 made_ns, __u64 issued_ns, __u64 now, struct request *request, __u32 bytes)
{
	struct slow_operation *told = bpf_ringbuf_reserve(&slow, sizeof(*told), 0);

	if (!told)
		return;
	told->made_ns = made_ns;
	told->issued_ns = issued_ns;
	told->ended_ns = now;
	told->sector = request->__sector;
	told->kind = kinds[number % SERIES];
	told->bytes = bytes;
	bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
}

static __always_inline void end(__u64 *ctx, struct begun *begun)
{
	struct request *request = (struct request *)ctx[0];
	__u64 now = bpf_ktime_get_ns(), made_ns = request->start_time_ns, issued_ns = begun->issued_ns;
	__u32 number = begun->number, bytes = begun->bytes;
	struct series *into;

	// From here on another operation may have the place.
	begun->issued_ns = 0;
	if (UNLIKELY(issued_ns < since_ns())) {
		leave_out(BEGUN_BEFORE);
		return;
	}
	into = bpf_map_lookup_elem(&series, &number);
	if (UNLIKELY(!into)) {
		leave_out(NO_ROOM);
		return;
	}
	// Made before it is handed on; the kernel may have read the clock a little earlier for several at a time.
	if (!made_ns || made_ns > issued_ns)
		made_ns = issued_ns;
	count(into, issued_ns - made_ns, now - issued_ns);
	into->bytes += bytes;
	if (UNLIKELY((__u8)ctx[1]))
		into->errors += 1;
	if (UNLIKELY(now - made_ns > SLOW_NS)) {
		into->slow += 1;
		tell_slow(number, made_ns, issued_ns, now, request, bytes);
	}
}

SEC("tp_btf/block_rq_complete")
int completed(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	__u32 bytes = request->__data_len;
	struct begun *begun;
	__u64 made_ns;

	// A part of it; the rest completes later.
	if ((__u32)ctx[2] < bytes)
		return 0;
	begun = known(ctx[0]);
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
	struct begun *begun;

	if ((__u32)ctx[2] < request->__data_len)
		return 0;
	begun = known(ctx[0]);
	if (begun && begun->issued_ns)
		end(ctx, begun);
	return 0;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
