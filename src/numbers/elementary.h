// Logarithm and exponential, the same to the last bit on every machine. The C library's differ
// there between its versions, and between processors with and without fused multiply-add, so that
// files would differ in last digits with the machine that wrote them. These are sums and products
// that IEEE 754 defines, in a fixed order, and off by at most 4 units in the last place.
#ifndef ELEMENTARY_H
#define ELEMENTARY_H

// e^x.
double elementary_exp(double x);

// 10 log10(ratio): -infinity for 0, NaN for what is negative.
double elementary_decibels(double ratio);

#endif
