// Package recording groups the parts that imitate an extension: the format of cassettes, their recorder and player, and
// injected faults.
package recording
