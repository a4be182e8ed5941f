// Package proc has what starts, confines and ends processes: process runs a child, sandbox says what it may touch,
// containment finds and kills what it leaves, and peer names the process at the other end of a connection.
package proc
