// SPDX-License-Identifier: MIT OR GPL-2.0
//
// Where every nanosecond of a CPU goes: a state machine per CPU, driven by the kernel's tracepoints.
//
// At each event the time since the last one is added to the class that the CPU was in. Which class that was is
// decided at the end of the stretch: a hard interrupt, else a soft interrupt, else whoever is the current task,
// because at `sched_switch` the task that leaves is still current. So no structure of the kernel is looked into,
// and neither type information (BTF) nor a kernel header is needed.
//
// All programs are raw tracepoints: one program serves every tracepoint of its kind, and no kernel function is
// patched. They run on every CPU of the machine; those that do not belong to a trial return at once.
//
// Several agents may be on one machine, in namespaces. They share one set of programs (`src/exact/shared.rs`), so that
// an event costs the same however many there are: the classes are counted once a CPU, and what is an agent's own once
// more for each.

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "account.h"

// Keeps the compiler from moving memory accesses across. Interrupts of the same CPU see them in program order.
#ifndef barrier
#define barrier() asm volatile("" ::: "memory")
#endif

// What an agent has of a CPU for itself.
struct part {
	__u64 ns;
	__u64 samples;
	__u64 user_samples;
	__u64 contentions;
	__u64 contended_ns;
	__u64 syscalls;
	__u64 counted; // whether it is one of the CPU's users
};

// The state machine of a CPU, and its account so far. Nothing of it is ever set back: who reads it takes differences.
//
// What every event touches stands together, the state at the end of one line of the cache and the classes behind it:
// under a load that moves gigabytes, lines of ours are not in the nearest cache when an event comes.
struct cpu {
	__u64 nested_from; // begin of an interrupt that came while `busy`
	__u64 nested_ns;   // time in such interrupts so far; written by them only
	__u64 taken_ns;    // how much of it has been accounted; written while `busy` only
	__u32 users;       // trials that count this CPU
	__u8 busy;         // an event is being handled: set while the account and the state are written
	__u8 irq;          // in a hard interrupt
	__u8 softirq;      // 0, or number of the soft interrupt's vector + 1
	__u8 sampled;      // the interrupt that runs now carries a sample
	__u32 task;        // 0, or class of the current task + 1
	__u32 member;      // whose task it is, where its class is APP
	struct account account; // in APP: tasks of all agents
	struct part parts[MEMBERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// What an agent reads: a CPU's account as it was when the CPU itself wrote it down, so that it is never torn. One a member.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMBERS);
	__type(key, __u32);
	__type(value, struct account);
} snapshots SEC(".maps");

// Locks that threads of agents wait for, by thread.
struct wait {
	__u64 lock;
	__u64 since_ns;
	__u64 member;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

// Agents, by the number that the kernel itself has for the process, with their numbers as members.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMBERS);
	__type(key, __u32);
	__type(value, __u32);
} members SEC(".maps");

// What the agent that attached the programs says of them to others; no program reads it but `control`, by which the map
// is found.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct offer);
} offers SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&cpus, &key);
}

// This CPU, if a trial counts it.
static __always_inline struct cpu *trial_cpu(void)
{
	struct cpu *cpu = this_cpu();

	return cpu && cpu->users ? cpu : 0;
}

// Class of the current task, looked up once between two switches.
static __always_inline __u32 task(struct cpu *cpu)
{
	__u32 *member, process;
	__u64 id;

	if (!cpu->task) {
		id = bpf_get_current_pid_tgid();
		process = id >> 32;
		member = id ? bpf_map_lookup_elem(&members, &process) : 0;
		if (member)
			cpu->member = *member;
		cpu->task = 1 + (!id ? IDLE : member ? APP : OTHER);
	}
	return (cpu->task - 1) & 3;
}

// A number of a member, whose bound the compiler does not know to be kept already. It would else leave the check out where the
// verifier needs it: that of Linux 6.1 forgets the bounds of 32 bits that were on the stack meanwhile.
static __always_inline __u32 as_member(__u64 number)
{
	asm volatile("" : "+r"(number));
	return number & (MEMBERS - 1);
}

// What the agent whose task is the current one has for itself.
static __always_inline struct part *part(struct cpu *cpu)
{
	return &cpu->parts[cpu->member & (MEMBERS - 1)];
}

// Whether an interrupt came in user mode, by the registers that it saved.
static __always_inline int user_mode(struct bpf_perf_event_data *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return (ctx->regs.cs & 3) == 3;
#elif defined(__TARGET_ARCH_arm64)
	return (ctx->regs.pstate & 0xf) == 0;
#else
#error "user mode is not known on this architecture"
#endif
}

// Begins to handle an event that closes the stretch which the CPU was in.
//
// A soft interrupt begins and ends with interrupts open, so an interrupt can come while its event is handled.
// It then finds `busy` and leaves the account alone (see `nested_begin`). If it comes before `busy` is set, it has
// accounted up to a time after ours: then nothing is left to be closed. For this order, time and nested time are
// taken before `busy` is set.
static __always_inline void close(struct cpu *cpu, __u64 now)
{
	__u64 nested_ns = *(volatile __u64 *)&cpu->nested_ns;
	__u64 pending, span;
	__u32 class;

	barrier();
	*(volatile __u8 *)&cpu->busy = 1;
	barrier();
	cpu->account.events++;
	if ((__s64)(now - cpu->account.until_ns) <= 0)
		return;
	span = now - cpu->account.until_ns;
	pending = nested_ns - cpu->taken_ns;
	if (pending) {
		cpu->taken_ns = nested_ns;
		if (pending > span)
			pending = span;
		cpu->account.ns[HARDIRQ] += pending;
		span -= pending;
	}
	if (cpu->irq) {
		cpu->account.ns[HARDIRQ] += span;
	} else if (cpu->softirq) {
		class = HARDIRQ + (cpu->softirq & 15);
		cpu->account.ns[class] += span;
	} else {
		class = task(cpu);
		cpu->account.ns[class] += span;
		if (class == APP)
			part(cpu)->ns += span;
	}
	cpu->account.until_ns = now;
}

// The event is handled.
static __always_inline void done(struct cpu *cpu)
{
	barrier();
	*(volatile __u8 *)&cpu->busy = 0;
}

SEC("raw_tp")
int irq_begin(void *ctx)
{
	struct cpu *cpu = trial_cpu();
	__u64 now;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (cpu->busy) {
		cpu->nested_from = now;
		return 0;
	}
	close(cpu, now);
	cpu->irq = 1;
	done(cpu);
	return 0;
}

SEC("raw_tp")
int irq_end(void *ctx)
{
	struct cpu *cpu = trial_cpu();
	__u64 now;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (cpu->busy) {
		cpu->nested_ns += now - cpu->nested_from;
		return 0;
	}
	if (cpu->sampled) {
		cpu->sampled = 0;
		cpu->account.sample_ns += now - cpu->account.until_ns;
	}
	close(cpu, now);
	cpu->irq = 0;
	done(cpu);
	return 0;
}

// softirq_entry(unsigned int vector)
SEC("raw_tp")
int softirq_begin(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu *cpu = trial_cpu();
	__u64 vector;

	if (!cpu || cpu->busy)
		return 0;
	close(cpu, bpf_ktime_get_ns());
	vector = ctx->args[0] & 15;
	cpu->softirq = vector + 1;
	cpu->account.softirqs[vector]++;
	done(cpu);
	return 0;
}

SEC("raw_tp")
int softirq_end(void *ctx)
{
	struct cpu *cpu = trial_cpu();

	if (!cpu || cpu->busy)
		return 0;
	close(cpu, bpf_ktime_get_ns());
	cpu->softirq = 0;
	done(cpu);
	return 0;
}

// sched_switch: the task that leaves is still current. No interrupt is going on here, so whatever the state
// machine may have missed it is right again from here on.
SEC("raw_tp")
int task_switch(void *ctx)
{
	struct cpu *cpu = trial_cpu();

	if (!cpu || cpu->busy)
		return 0;
	close(cpu, bpf_ktime_get_ns());
	cpu->irq = 0;
	cpu->softirq = 0;
	cpu->task = 0;
	done(cpu);
	return 0;
}

// Never attached: the agent runs it on a CPU of its choice. What is to be done is the first argument, and the member the
// second.
SEC("raw_tp")
int control(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 process = bpf_get_current_pid_tgid() >> 32, key = 0;
	__u32 member = as_member(ctx->args[1]);
	__u64 now = bpf_ktime_get_ns();
	struct account *snapshot;
	struct cpu *cpu = this_cpu();
	struct part *own;

	if (!cpu || !bpf_map_lookup_elem(&offers, &key))
		return FAILED;
	switch (ctx->args[0]) {
	case JOIN:
		// One that was killed may have had the same process id.
		return bpf_map_update_elem(&members, &process, &member, BPF_ANY) ? FAILED : DONE;
	case LEAVE:
		return bpf_map_delete_elem(&members, &process) ? FAILED : DONE;
	case BEGIN:
		// One at a time; but END of another may come in between, and events of a CPU that is accounted already.
		if (!cpu->users) {
			cpu->busy = 0;
			cpu->irq = 0;
			cpu->softirq = 0;
			cpu->task = 0;
			cpu->sampled = 0;
			cpu->taken_ns = cpu->nested_ns;
			cpu->account.until_ns = now;
		}
		barrier();
		own = &cpu->parts[as_member(member)];
		if (!own->counted) {
			own->counted = 1;
			__sync_fetch_and_add(&cpu->users, 1);
		}
		return DONE;
	case END:
		// Also by another agent, for a member that was killed, on CPUs that it may not have used.
		own = &cpu->parts[as_member(member)];
		if (own->counted) {
			own->counted = 0;
			__sync_fetch_and_add(&cpu->users, -1);
		}
		return DONE;
	case READ:
		snapshot = bpf_map_lookup_elem(&snapshots, &member);
		if (!snapshot)
			return FAILED;
		if (cpu->busy)
			return BUSY;
		close(cpu, now);
		__builtin_memcpy(snapshot, &cpu->account, sizeof(*snapshot));
		own = &cpu->parts[as_member(member)];
		snapshot->ns[OTHER] += snapshot->ns[APP] - own->ns;
		snapshot->ns[APP] = own->ns;
		snapshot->samples = own->samples;
		snapshot->user_samples = own->user_samples;
		snapshot->contentions = own->contentions;
		snapshot->contended_ns = own->contended_ns;
		snapshot->syscalls = own->syscalls;
		done(cpu);
		return DONE;
	}
	return FAILED;
}

// A timer's sample, inside of the interrupt that it came with: was user code of the agent interrupted?
//
// This is how user and system time of the agent are told apart. The exact way, an event at each entry to and exit
// from the kernel, would put every system call of the machine on its slow path. The timer may be that of the call
// stacks; 1 lets the sample go on there, and `irq_end` sees what it all took.
SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct cpu *cpu = trial_cpu();

	if (!cpu || cpu->busy)
		return 1;
	cpu->sampled = 1;
	if (cpu->softirq || task(cpu) != APP)
		return 1;
	part(cpu)->samples++;
	part(cpu)->user_samples += user_mode(ctx);
	return 1;
}

// What follows counts, and may be left out.

// napi_poll(struct napi_struct *napi, int work, int budget)
SEC("raw_tp")
int poll_end(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu *cpu = trial_cpu();
	int work, budget;

	if (!cpu)
		return 0;
	work = ctx->args[1];
	budget = ctx->args[2];
	cpu->account.events++;
	cpu->account.polls++;
	cpu->account.packets += work;
	cpu->account.full_polls += work >= budget;
	return 0;
}

// sched_wakeup(struct task_struct *task)
SEC("raw_tp")
int wakeup(void *ctx)
{
	struct cpu *cpu = trial_cpu();

	if (!cpu)
		return 0;
	cpu->account.events++;
	cpu->account.wakeups++;
	return 0;
}

// contention_begin(void *lock, unsigned int flags). A wait may come in parts (a mutex is first spun for) and may
// meet another lock on its way; it lasts until the end of the lock that it began with.
SEC("raw_tp")
int wait_begin(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu *cpu = trial_cpu();
	struct wait wait = {};
	__u32 thread;

	if (!cpu)
		return 0;
	cpu->account.events++;
	if (cpu->irq || cpu->softirq || task(cpu) != APP)
		return 0;
	thread = bpf_get_current_pid_tgid();
	wait.lock = ctx->args[0];
	wait.since_ns = bpf_ktime_get_ns();
	wait.member = cpu->member;
	bpf_map_update_elem(&waits, &thread, &wait, BPF_NOEXIST);
	return 0;
}

// contention_end(void *lock, int outcome)
SEC("raw_tp")
int wait_end(struct bpf_raw_tracepoint_args *ctx)
{
	struct cpu *cpu = trial_cpu();
	struct wait *wait;
	__u32 thread;

	if (!cpu)
		return 0;
	cpu->account.events++;
	if (cpu->irq || cpu->softirq || task(cpu) != APP)
		return 0;
	thread = bpf_get_current_pid_tgid();
	wait = bpf_map_lookup_elem(&waits, &thread);
	if (!wait || wait->lock != ctx->args[0])
		return 0;
	part(cpu)->contentions++;
	part(cpu)->contended_ns += bpf_ktime_get_ns() - wait->since_ns;
	bpf_map_delete_elem(&waits, &thread);
	return 0;
}

// sys_enter: attached for a short time only.
SEC("raw_tp")
int syscall_begin(void *ctx)
{
	struct cpu *cpu = trial_cpu();

	if (!cpu)
		return 0;
	cpu->account.events++;
	if (task(cpu) == APP)
		part(cpu)->syscalls++;
	return 0;
}

// What the way to any program at a tracepoint costs. Attached only to be measured against.
SEC("raw_tp")
int empty(void *ctx)
{
	return 0;
}

// The least that any accounting at an event can do. Attached only to be measured against.
SEC("raw_tp")
int least(void *ctx)
{
	return bpf_ktime_get_ns() == 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
