// Package host has the parts of a host. A call comes in at gateway, takes the stages of dispatch over what snapshot has
// in force, and ends at a unit; bridge, policies and remote make units of destinations, policies and extensions of
// other nodes. The root package wires them, and none of them imports it.
package host
