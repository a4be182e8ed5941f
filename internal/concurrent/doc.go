// Package concurrent has what goroutines share: counts of work under way, and one run for many requests.
package concurrent
