package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost"
)

// notifier reports to the service manager as described in sd_notify(3). The zero value does nothing.
type notifier struct {
	socket   string        // path, or @ and the name of an abstract socket
	watchdog time.Duration // interval at which the manager expects a keep-alive; 0: none
}

// takeNotifier reads the service manager's variables and removes them from the environment: extensions must not speak
// for the host.
func takeNotifier() (n notifier) {
	n.socket = os.Getenv("NOTIFY_SOCKET")
	span, err := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && span > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(span) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	return n
}

// tell sends a state such as READY=1.
func (n notifier) tell(state string, log *slog.Logger) {
	if n.socket == "" {
		return
	}
	name := n.socket
	if rest, abstract := strings.CutPrefix(name, "@"); abstract {
		name = "\x00" + rest
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// keepAlive sends keep-alives until ctx ends, as long as h answers.
func (n notifier) keepAlive(ctx context.Context, h *exthost.Host, log *slog.Logger) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	tick := time.NewTicker(n.watchdog / 3)
	defer tick.Stop()
	for {
		_ = h.Status() // takes the locks that calls take
		n.tell("WATCHDOG=1", log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
