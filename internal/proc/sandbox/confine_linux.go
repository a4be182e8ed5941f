package sandbox

import (
	"fmt"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// Confine confines this thread and every process that it starts from now on. It cannot be undone: the thread must be
// locked and not be used for anything else. program is the executable that the thread will start; the sandbox always
// lets it be read and run.
func (p *Policy) Confine(program string) error {
	if _, err := p.Check(); err != nil {
		return err
	}
	rules := p.Rules(program)
	if err := rules.Apply(); err != nil || p.Watch == nil {
		return err
	}
	return p.Watch.start(rules.Files)
}

// protection returns what this kernel enforces of p.
func (p *Policy) protection() (is Protection) {
	abi := confine.LandlockABI()
	holds := func(ok bool, what, lacks string) {
		if ok {
			is.Holds = append(is.Holds, what)
		} else {
			is.Lacks = append(is.Lacks, what+": "+lacks)
		}
	}
	holds(abi >= confine.ABITruncate, "files",
		fmt.Sprintf("Landlock has version %d here, and version %d (Linux 6.2) is needed; 0 means that it is not "+
			"enabled (lsm=landlock on the kernel's command line)", abi, confine.ABITruncate))
	holds(abi >= confine.ABIScope || p.OwnProc, "signals",
		fmt.Sprintf(`Landlock has version %d here, and version %d (Linux 6.12) is needed, or runtime.isolate = "pid"`,
			abi, confine.ABIScope))
	filters := confine.FiltersCalls()
	const noFilter = "the kernel takes no filter of system calls (CONFIG_SECCOMP_FILTER), or this processor has none"
	holds(filters, "system calls", noFilter)
	if p.Namespaced() {
		holds(p.OwnNet && filters, "network",
			"a network of its own takes namespaces, which this system does not give (user.max_user_namespaces, "+
				"kernel.apparmor_restrict_unprivileged_userns, or the container's seccomp profile); "+
				`net = "none" takes none`)
	} else {
		holds(filters, "network", noFilter)
	}
	if filters && (len(p.Write) == 0 || p.OwnProc) {
		is.Holds = append(is.Holds, HoldsAttributes)
	}
	return is
}
