package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/nsinit"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/proc/sandbox/egress"
)

// namespaces returns nil if a child can have a network namespace, else the reason. It starts a program that does not
// exist: that is noticed only after the namespaces have been created.
var namespaces = sync.OnceValue(func() error {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{}}
	proc, err := startInNamespace("/nonexistent", []string{"none"}, attr, true)
	if err == nil { // the program does exist
		_ = proc.Kill()
		_, err = proc.Wait()
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
})

// receiveListener takes the listener that the init may send first.
func (l *initConn) receiveListener() error {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	var first [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, oob := 0, 0
	waited := raw.Read(func(fd uintptr) bool {
		n, oob, _, _, err = unix.Recvmsg(int(fd), first[:], rights, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch err := errors.Join(waited, err); {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case first[0] != nsinit.ListenerMark:
		l.lines.Reset(io.MultiReader(strings.NewReader(string(first[:])), l.socket))
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	var fds []int
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("the listener of its proxy did not arrive: %d messages, %d descriptors, error %v",
			len(messages), len(fds), err)
	}
	file := os.NewFile(uintptr(fds[0]), "proxy")
	defer file.Close()
	l.listen, err = net.FileListener(file)
	return err
}

// openProxy serves the child's listener until the returned Closer is closed; nil if there is none.
func (l *initConn) openProxy(p *sandbox.Policy) io.Closer {
	if l == nil || l.listen == nil {
		return nil
	}
	return egress.Serve(l.listen, slices.Clone(p.Net.Hosts()), p.Record)
}
