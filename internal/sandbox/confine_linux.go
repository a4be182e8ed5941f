package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Confine confines this thread, and every process that it starts from now on. It cannot be
// undone: the thread must be locked, and must not be used for anything else. Program is the
// executable that the thread will start; it may be read and run.
func (p *Policy) Confine(program string) error {
	if _, err := p.Check(); err != nil {
		return err
	}
	// Without it, setuid programs would run confined by somebody who is not their user.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if landlockABI() > 0 {
		if err := landlock(p.rules(program)); err != nil {
			return fmt.Errorf("confine its files: %w", err)
		}
	}
	if seccompWorks() {
		if err := seccomp(filterOf(len(p.Write) > 0, p.Namespaced())); err != nil {
			return fmt.Errorf("confine its system calls: %w", err)
		}
	}
	if p.Watch != nil {
		return p.Watch.start(p.rules(program))
	}
	return nil
}

// protection returns what this kernel enforces of p.
func (p *Policy) protection() (is Protection) {
	abi := landlockABI()
	holds := func(ok bool, what, lacks string) {
		if ok {
			is.Holds = append(is.Holds, what)
		} else {
			is.Lacks = append(is.Lacks, what+": "+lacks)
		}
	}
	holds(abi >= abiTruncate, "files", fmt.Sprintf("Landlock has version %d here, and version %d (Linux 6.2) is needed; 0 means that it is not enabled (lsm=landlock on the kernel's command line)", abi, abiTruncate))
	holds(abi >= abiScope || p.OwnProc, "signals", fmt.Sprintf(`Landlock has version %d here, and version %d (Linux 6.12) is needed, or runtime.isolate = "pid"`, abi, abiScope))
	filters := seccompWorks()
	const noFilter = "the kernel takes no filter of system calls (CONFIG_SECCOMP_FILTER), or this processor has none"
	holds(filters, "system calls", noFilter)
	if p.Namespaced() {
		holds(p.OwnNet && filters, "network", `a network of its own takes namespaces, which this system does not give (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns, or the container's seccomp profile); net = "none" takes none`)
	} else {
		holds(filters, "network", noFilter)
	}
	return is
}
