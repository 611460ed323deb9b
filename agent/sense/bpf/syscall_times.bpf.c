// SPDX-License-Identifier: MIT OR GPL-2.0
//
// How long system calls take that move data or make it durable, counted where they end.
//
// The kernel has two tracepoints for all calls, so these programs run at the begin and the end of each call of the machine;
// of one that is none of these they look at its number alone. A task has one call at a time: its begin stands in storage of
// the task, which goes with it.

#include <linux/bpf.h>
#include <linux/types.h>

#include <asm/unistd.h>
#include <bpf/bpf_helpers.h>

#include "syscall_times.h"

#if defined(__TARGET_ARCH_x86)

// As the processor and the kernel's entry leave them (`asm/ptrace.h`).
struct pt_regs {
	__u64 others[15];
	__u64 call;
	__u64 ip;
	__u16 code_segment;
};

// The segment of code of 32 bits (`__USER32_CS` of asm/segment.h), whose calls have other numbers.
#define OF_32_BITS(registers) ((registers)->code_segment == 0x23)
#define CALL_OF(registers) ((registers)->call)

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
	__u64 others[33];
	__u64 state;
	__u64 first_argument;
	__s32 call;
};

// `PSR_MODE32_BIT` of asm/ptrace.h.
#define OF_32_BITS(registers) ((registers)->state & 0x10)
#define CALL_OF(registers) ((__u64)(__u32)(registers)->call)

#endif

// Of calls that return no number of bytes.
#define NO_BYTES 0x80
#define NUMBERS 512

// What each call does, by its number. `open` and `close` move nothing; operations of io_uring and of AIO are no calls.
static const __u8 operations[NUMBERS] = {
	[__NR_read] = READ,
	[__NR_pread64] = READ,
	[__NR_readv] = READ,
	[__NR_preadv] = READ,
	[__NR_preadv2] = READ,
	[__NR_write] = WRITE,
	[__NR_pwrite64] = WRITE,
	[__NR_writev] = WRITE,
	[__NR_pwritev] = WRITE,
	[__NR_pwritev2] = WRITE,
	[__NR_fsync] = SYNC | NO_BYTES,
	[__NR_fdatasync] = SYNC | NO_BYTES,
	[__NR_sync_file_range] = SYNC | NO_BYTES,
	[__NR_syncfs] = SYNC | NO_BYTES,
	[__NR_sync] = SYNC | NO_BYTES,
	[__NR_msync] = SYNC | NO_BYTES,
	[__NR_recvfrom] = RECEIVE,
	[__NR_recvmsg] = RECEIVE,
	[__NR_recvmmsg] = RECEIVE | NO_BYTES,
	[__NR_sendto] = SEND,
	[__NR_sendmsg] = SEND,
	[__NR_sendmmsg] = SEND | NO_BYTES,
	[__NR_sendfile] = COPY,
	[__NR_splice] = COPY,
	[__NR_vmsplice] = COPY,
	[__NR_tee] = COPY,
	[__NR_copy_file_range] = COPY,
};

enum { UNKNOWN, OF_OTHERS, OF_AGENT };

// The call that a task is in. `begun_ns` 0: in none that counts.
struct call {
	__u64 begun_ns;
	__u32 task;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OPERATIONS);
	__type(key, __u32);
	__type(value, struct series);
} series SEC(".maps");

// Calls that are in no series: the kernel had no memory for the storage of their task.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} left_out SEC(".maps");

// The agent, whose calls do not count.
static __u32 agent SEC(".bss.agent");

// What is rare is a function of its own, so that what is not lies close together.
#define RARE static __attribute__((noinline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

// Never attached: the agent runs it, and is known from then on, whatever names of processes it lives under.
SEC("raw_tp")
int this_is_the_agent(void *ctx)
{
	agent = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

static __always_inline __u32 operation_of(__u64 number)
{
	return number < NUMBERS ? operations[number] : 0;
}

RARE void leave_out(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&left_out, &zero);

	if (count)
		*count += 1;
}

// The first call of a task, or one of the agent's.
RARE int is_of_others(struct call *call)
{
	if (!call)
		return 0;
	if (call->task == UNKNOWN)
		call->task = (__u32)(bpf_get_current_pid_tgid() >> 32) == agent ? OF_AGENT : OF_OTHERS;
	return call->task == OF_OTHERS;
}

SEC("tp_btf/sys_enter")
int begun(__u64 *ctx)
{
	struct pt_regs *registers = (struct pt_regs *)ctx[0];
	struct call *call;

	if (!operation_of(ctx[1]) || OF_32_BITS(registers))
		return 0;
	call = bpf_task_storage_get(&calls, (void *)bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		leave_out();
		return 0;
	}
	if (UNLIKELY(call->task != OF_OTHERS) && !is_of_others(call))
		return 0;
	call->begun_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void count(struct series *into, __u64 time_ns)
{
	__u32 bucket = bucket_of(time_ns);

	into->calls += 1;
	into->time_ns += time_ns;
	if (bucket < BUCKETS)
		into->times[bucket] += 1;
}

SEC("tp_btf/sys_exit")
int ended(__u64 *ctx)
{
	struct pt_regs *registers = (struct pt_regs *)ctx[0];
	__u32 operation = operation_of(CALL_OF(registers)), key = operation & ~NO_BYTES;
	__s64 returned = ctx[1];
	struct series *into;
	struct call *call;

	if (!operation)
		return 0;
	call = bpf_task_storage_get(&calls, (void *)bpf_get_current_task_btf(), 0, 0);
	// One that was begun before the programs ran, or by the agent, has no begin.
	if (!call || !call->begun_ns)
		return 0;
	into = bpf_map_lookup_elem(&series, &key);
	if (into) {
		count(into, bpf_ktime_get_ns() - call->begun_ns);
		if (returned < 0)
			into->errors += 1;
		else if (!(operation & NO_BYTES))
			into->bytes += returned;
	}
	call->begun_ns = 0;
	return 0;
}

char dual_licence[] SEC("license") = "Dual MIT/GPL";
