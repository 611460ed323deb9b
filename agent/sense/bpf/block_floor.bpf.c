// SPDX-License-Identifier: MIT OR GPL-2.0
//
// What any program at an operation's begin and end costs here: programs that do one thing each, only to be measured against
// those of `block_times.bpf.c`.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

// As many as `block_times` has room for; addresses of requests are the keys there, too.
#define ROOM 16384

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROOM);
	__type(key, __u32);
	__type(value, __u64);
} in_array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROOM);
	__type(key, __u32);
	__type(value, __u64);
} in_array_of_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ROOM);
	__type(key, __u64);
	__type(value, __u64);
} in_hash SEC(".maps");

static __always_inline __u32 place_of(__u64 address)
{
	return (address >> 6) % ROOM;
}

SEC("raw_tp")
int empty(__u64 *ctx)
{
	return 0;
}

SEC("raw_tp")
int clock_read(__u64 *ctx)
{
	return bpf_ktime_get_ns() == 0;
}

SEC("raw_tp")
int array(__u64 *ctx)
{
	__u32 place = place_of(ctx[0]);
	__u64 *count = bpf_map_lookup_elem(&in_array, &place);

	if (count)
		*count += 1;
	return 0;
}

SEC("raw_tp")
int array_of_cpu(__u64 *ctx)
{
	__u32 place = place_of(ctx[0]);
	__u64 *count = bpf_map_lookup_elem(&in_array_of_cpu, &place);

	if (count)
		*count += 1;
	return 0;
}

SEC("raw_tp")
int hash(__u64 *ctx)
{
	__u64 key = ctx[0], none = 0;
	__u64 *count = bpf_map_lookup_elem(&in_hash, &key);

	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&in_hash, &key, &none, BPF_NOEXIST);
	return 0;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
