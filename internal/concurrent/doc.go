// Package concurrent groups helpers for goroutines: counting work in flight, and combining requests into one run.
package concurrent
