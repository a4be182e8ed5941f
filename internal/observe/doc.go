// Package observe groups what shows the inside of a running host: log records and frames. Counts, durations and events
// are in host/stats; traces, which only the program sends, in cli/traces.
package observe
