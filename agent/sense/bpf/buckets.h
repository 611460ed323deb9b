// SPDX-License-Identifier: MIT OR GPL-2.0
//
// Histograms of times that programs count. `src/kernel_buckets.rs` reads them.
#pragma once

#include <linux/types.h>

// 32 buckets an octave, 3.1 % wide, up to 18 minutes.
#define SUB_BITS 5
#define TOP_BITS 40
#define BUCKETS (((TOP_BITS - SUB_BITS - 1) << SUB_BITS) + (2 << SUB_BITS))

// Bits that a number below 256 takes.
#define BITS_2(of) of, of
#define BITS_4(of) BITS_2(of), BITS_2(of)
#define BITS_8(of) BITS_4(of), BITS_4(of)
#define BITS_16(of) BITS_8(of), BITS_8(of)
#define BITS_32(of) BITS_16(of), BITS_16(of)
#define BITS_64(of) BITS_32(of), BITS_32(of)
#define BITS_128(of) BITS_64(of), BITS_64(of)
static const __u8 small_bits[256] = {
	0, 1, BITS_2(2), BITS_4(3), BITS_8(4), BITS_16(5), BITS_32(6), BITS_64(7), BITS_128(8),
};

// Bits that a number below 2^40 takes.
static __always_inline __u32 bits_of(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) { bits += 32; value >>= 32; }
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	// The compiler knows more of the value than the verifier, and would leave the mask out.
	asm volatile("" : "+r"(value));
	return bits + small_bits[value & 0xff];
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
