// Package resident releases memory that a process was given and does not need. It imports little, because guardian and
// init run before the packages of a host are initialised.
package resident
