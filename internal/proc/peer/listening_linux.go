package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Listening returns the paths of all users' listening unix sockets in this network namespace; none on systems without
// /proc.
func Listening() (paths []string) {
	table, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path
		const flags, columns = 3, 7
		const accepts = "00010000" // __SO_ACCEPTCON
		listens, rest := false, strings.TrimSuffix(line, "\n")
		for column := range columns {
			var value string
			value, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			listens = listens || column == flags && value == accepts
		}
		if listens && filepath.IsAbs(rest) { // a path may contain blanks
			paths = append(paths, rest)
		}
	}
	return paths
}

// PortHolder returns the process that listens on a TCP port of this network namespace, and its program. pid is 0 if
// none is visible; uid is then the user of the socket, or -1 if nothing listens there.
func PortHolder(port uint16) (pid int, program string, uid int) {
	const listens = "0A" // TCP_LISTEN
	sockets, uid := make(map[string]bool), -1
	for _, list := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, _ := os.ReadFile(list)
		for line := range strings.Lines(string(table)) {
			// number, local address, remote address, state, queues, timers, retransmits, uid, timeout, inode
			fields := strings.Fields(line)
			if len(fields) >= 10 && fields[3] == listens && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+fields[9]+"]"] = true
				uid, _ = strconv.Atoi(fields[7])
			}
		}
	}
	if len(sockets) == 0 {
		return 0, "", -1
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && sockets[to] {
			process := strings.Split(fd, "/")[2]
			name, _ := os.ReadFile("/proc/" + process + "/comm")
			pid, _ = strconv.Atoi(process)
			return pid, strings.TrimSpace(string(name)), uid
		}
	}
	return 0, "", uid
}
