// SPDX-License-Identifier: MIT OR GPL-2.0
//
// What happens to a trial's datagrams at a device, before the kernel's own protocols see them. Everything else goes its
// ordinary way: packets to other addresses and ports are passed on after a look at their headers.
//
// Each program is attached by a link that belongs to the agent's process: it is gone with it, however it ends.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// The server's own address and port, in the order of the network. Set before loading.
volatile const __u32 address;
volatile const __u16 port;

// Whether datagrams from there are meant instead of those to there: at the client.
volatile const __u8 back;

// Fragment: an offset, or more to follow.
#define FRAGMENT 0x3fff
#define LATER_FRAGMENT 0x1fff

#define PASS_ON -1 // TCX_NEXT
#define DROP 2     // TCX_DROP

// Behind the taps (packet sockets, tcpdump), in front of the kernel's IP: the server answers by a ring, so the kernel
// shall not answer as well.
SEC("classifier")
int drop(struct __sk_buff *skb)
{
	struct iphdr ip;
	struct udphdr udp;

	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return PASS_ON;
	if (ip.protocol != IPPROTO_UDP || (back ? ip.saddr : ip.daddr) != address)
		return PASS_ON;
	if (ip.frag_off & bpf_htons(FRAGMENT))
		return PASS_ON;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4, &udp, sizeof(udp)))
		return PASS_ON;
	if ((back ? udp.source : udp.dest) != port)
		return PASS_ON;
	return DROP;
}

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// The header of UDP of a packet without options, where it is a whole datagram; the verifier wants every bound checked.
static __always_inline struct udphdr *datagram(struct xdp_md *ctx, struct iphdr **ip)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *link = data;
	struct udphdr *udp;

	*ip = (void *)(link + 1);
	udp = (void *)(*ip + 1);
	if ((void *)(udp + 1) > end || link->h_proto != bpf_htons(ETH_P_IP))
		return 0;
	if ((*ip)->ihl != 5 || (*ip)->protocol != IPPROTO_UDP)
		return 0;
	return udp;
}

// To the AF_XDP socket of the queue that it came on.
SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = datagram(ctx, &ip);

	if (!udp || (back ? ip->saddr : ip->daddr) != address || ip->frag_off & bpf_htons(FRAGMENT))
		return XDP_PASS;
	if ((back ? udp->source : udp->dest) != port)
		return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

// A client without a process: every answer becomes the next request of its flow.
//
// `address` and `port` are the server's here, too. What else the trial's datagrams look like:
volatile const __u64 mark;
volatile const __u32 request_bytes;

// In front of every payload, see `transport/datagram.rs`; all of it in the byte order of x86 and arm64.
struct header {
	__u64 mark;
	__u32 flow;
	__u32 kind;
	__u64 sequence;
};

#define REQUEST 1
#define ANSWER 2
// The upper bits of a sequence number say in which round of seeding its loop began.
#define ROUND_SHIFT 40

#define MOST_FLOWS 4096

// What came back, by flow; a CPU's own, so that it needs no locked instruction.
struct reflected {
	__u64 answers;
	__u64 stale;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MOST_FLOWS);
	__type(key, __u32);
	__type(value, struct reflected);
} reflected SEC(".maps");

// In which round each flow is; 0: it is to end.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_FLOWS);
	__type(key, __u32);
	__type(value, __u64);
} rounds SEC(".maps");

SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = datagram(ctx, &ip);
	struct header *header;
	struct reflected *count;
	struct ethhdr *link;
	__u64 *round;
	__u32 flow, sum;
	__u16 *half, other;
	long length;
	int index;

	if (!udp || ip->saddr != address)
		return XDP_PASS;
	// Of an answer in fragments the first one has the header, and the rest would wait for it in vain.
	if (ip->frag_off & bpf_htons(LATER_FRAGMENT))
		return XDP_DROP;
	header = (void *)(udp + 1);
	if (udp->source != port || (void *)(header + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (header->mark != mark || header->kind != ANSWER)
		return XDP_PASS;
	flow = header->flow;
	count = bpf_map_lookup_elem(&reflected, &flow);
	round = bpf_map_lookup_elem(&rounds, &flow);
	if (!count || !round)
		return XDP_PASS;
	if (header->sequence >> ROUND_SHIFT != *round) {
		count->stale++;
		return XDP_DROP;
	}
	count->answers++;

	length = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	// Or the compiler reckons with the end of the packet by itself, which the verifier does not allow.
	asm volatile("" : "+r"(length));
	if (bpf_xdp_adjust_tail(ctx, sizeof(*link) + sizeof(*ip) + sizeof(*udp) + request_bytes - length))
		return XDP_DROP;
	udp = datagram(ctx, &ip);
	if (!udp)
		return XDP_DROP;
	header = (void *)(udp + 1);
	if ((void *)(header + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	link = (void *)(long)ctx->data;
	half = (__u16 *)link;
	for (index = 0; index < 3; index++) {
		other = half[index];
		half[index] = half[index + 3];
		half[index + 3] = other;
	}
	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->tot_len = bpf_htons(sizeof(*ip) + sizeof(*udp) + request_bytes);
	ip->frag_off = 0;
	ip->ttl = 64;
	ip->check = 0;
	half = (__u16 *)ip;
	for (sum = 0, index = 0; index < 10; index++)
		sum += half[index];
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~((sum & 0xffff) + (sum >> 16));
	udp->source = udp->dest;
	udp->dest = port;
	udp->len = bpf_htons(sizeof(*udp) + request_bytes);
	// None, RFC 768.
	udp->check = 0;
	header->kind = REQUEST;
	header->sequence++;
	return XDP_TX;
}
