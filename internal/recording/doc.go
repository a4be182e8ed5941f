// Package recording groups what stands in for an extension: cassettes, their recorder and player, and injected
// faults.
package recording
