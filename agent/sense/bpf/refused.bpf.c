// SPDX-License-Identifier: MIT OR GPL-2.0
//
// A program that no verifier lets pass, for the tests: it reads where a map may have given it nothing.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} snapshots SEC(".maps");

SEC("raw_tp")
int control(void *ctx)
{
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&snapshots, &key);

	return *value;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
