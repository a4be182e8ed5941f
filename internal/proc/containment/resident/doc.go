// Package resident gives back memory that a process was given and does not need.
//
// It imports little, because the guardian and an init do not wait for the packages of a host.
package resident
