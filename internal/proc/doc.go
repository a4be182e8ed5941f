// Package proc groups the packages that start, confine and end processes: process runs a child, sandbox confines it,
// containment finds and kills what it leaves behind, and peer identifies the process at the other end of a connection.
package proc
