package daemon

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/containment/lineage"
	"github.com/exthost/exthost/internal/proc/peer"
)

// Refusal returns why the peer process of conn may not act as an operator or client of this host, or "" if it
// may. Processes started by this host, other hosts or earlier ones are refused, since an extension could
// otherwise approve its own calls. conn must come from a listener of this package, which has checked the user.
func Refusal(conn net.Conn) string {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return ""
	}
	other, err := peer.Unix(c)
	if file.Exhausted(err) {
		return "the host cannot tell which process asks: " + lineage.NoDescriptor
	}
	if err != nil {
		return "the host cannot tell which process asks: " + err.Error()
	}
	defer other.Close()
	relation := lineage.Of(other.PID)
	if relation == lineage.Unknown && other.UID == 0 && os.Geteuid() != 0 {
		// /proc hides root's processes from other users, and no extension of this host runs as root
		relation = lineage.Unrelated
	}
	nested, visible := lineage.Nested(other.PID)
	if !visible {
		relation = lineage.Unknown
	}
	why := refusal(other.PID, nested, relation, lineage.Hiding)
	if !other.Alive() { // its pid may have been reused meanwhile
		return "the process that connected to the host has ended, and the host takes no orders over what it left"
	}
	return why
}

// OfRoot reports whether the peer process of conn runs as root while the host does not. As for [Refusal], conn must
// come from a listener of this package.
func OfRoot(conn net.Conn) bool {
	c, ok := conn.(*net.UnixConn)
	if !ok || os.Geteuid() == 0 {
		return false
	}
	other, err := peer.Unix(c)
	other.Close()
	return err == nil && other.UID == 0
}

// refusal formats the reason to refuse a process. hiding is [lineage.Hiding].
func refusal(pid int, nested bool, relation lineage.Relation, hiding func() string) string {
	switch {
	case runtime.GOOS == "linux" && pid == 0, nested: // without a pid, it is in a namespace beside or above
		return "this process is in another pid namespace than the host, as its isolated extensions are, and the host " +
			"takes no orders from there; run the command outside of the container or namespace"
	case relation == lineage.Descendant:
		return fmt.Sprintf("process %d was started by an extension, hook or policy of a host, this one or an earlier "+
			"one, and a host takes no orders from those; run the command in a terminal of your own", pid)
	case relation == lineage.Unknown:
		why := hiding()
		if why == "" {
			why = "it has no_new_privs as they have, which could not be marked here, or /proc hides it; run the " +
				"command in a terminal without no_new_privs (grep NoNewPrivs /proc/self/status)"
		}
		return fmt.Sprintf("the host cannot tell that process %d was started by no extension, hook or policy: %s", pid,
			why)
	}
	return ""
}
