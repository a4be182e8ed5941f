// Package host implements the parts of a running host. A call enters through gateway, passes the stages of
// dispatch over the current snapshot, and ends at a unit. Destinations, policies and extensions of other nodes
// become units in bridge, policies and remote. The root package wires them, and none of them imports it.
package host
