// Package concurrent has helpers for goroutines: it counts work in flight, combines requests into one run, and delivers
// items to slow and fast readers alike.
package concurrent
