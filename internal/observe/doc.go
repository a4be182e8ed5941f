// Package observe has what a host shows of itself while it runs: log records, frames and durations. Counts and
// events are host/stats; traces, which only the program sends, are cli/traces.
package observe
