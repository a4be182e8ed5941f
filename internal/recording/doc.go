// Package recording has calls that do not reach an extension: cassettes, their recorder and player, and faults on
// purpose.
package recording
