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

	"github.com/exthost/exthost/internal/egress"
	"github.com/exthost/exthost/internal/sandbox"
)

// listenerMark is the first byte of an init that sends the listener of its child's proxy. A report
// begins with another.
const listenerMark = '!'

// namespaces returns nil if a child can have a network namespace, and why not otherwise. A program that
// does not exist is not found only after the namespaces are made.
var namespaces = sync.OnceValue(func() error {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{}}
	proc, err := startInNamespace("/nonexistent", []string{"none"}, attr, true)
	if err == nil { // somebody has made it
		_ = proc.Kill()
		_, err = proc.Wait()
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
})

// ownNetwork brings up the loopback interface of this network namespace. Where p names hosts, it
// listens there, sends the listener to the host, and has programs use it by their environment.
func ownNetwork(host *os.File, p *sandbox.Policy) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up its loopback interface: %w", err)
	}
	if len(p.Net.Hosts()) == 0 {
		return nil
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, unix.SOMAXCONN)); err != nil {
		return fmt.Errorf("listen for its proxy: %w", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(int(host.Fd()), []byte{listenerMark}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("send the listener of its proxy: %w", err)
	}
	useProxy(at.(*unix.SockaddrInet4).Port)
	return nil
}

// useProxy sets the variables by which programs find their proxy.
func useProxy(port int) {
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		os.Setenv(name, address)
		os.Setenv(strings.ToLower(name), address)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		os.Setenv(name, "localhost,127.0.0.1,::1")
	}
	os.Setenv("NODE_USE_ENV_PROXY", "1") // fetch of Node.js 24 looks at the others then
}

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
	case first[0] != listenerMark:
		l.lines.Reset(io.MultiReader(strings.NewReader(string(first[:])), l.socket))
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	var fds []int
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("the listener of its proxy did not arrive: %d messages, %d descriptors, error %v", len(messages), len(fds), err)
	}
	file := os.NewFile(uintptr(fds[0]), "proxy")
	defer file.Close()
	l.listen, err = net.FileListener(file)
	return err
}

// openProxy serves the listener of the child, until the returned Closer is closed; nil for none.
func (l *initConn) openProxy(p *sandbox.Policy) io.Closer {
	if l == nil || l.listen == nil {
		return nil
	}
	return egress.Serve(l.listen, slices.Clone(p.Net.Hosts()), p.Record)
}
