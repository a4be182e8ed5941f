package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Apply confines this thread and every process that it starts from now on, as far as the kernel can. It cannot be
// undone: the thread must be locked and not be used for anything else.
func (r *Rules) Apply() error {
	// Otherwise the caller could run another user's setuid programs confined.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if LandlockABI() > 0 {
		if err := landlock(r.Files); err != nil {
			return fmt.Errorf("confine its files: %w", err)
		}
	}
	if FiltersCalls() {
		if err := seccomp(filterOf(r.Writes, r.Internet)); err != nil {
			return fmt.Errorf("confine its system calls: %w", err)
		}
	}
	return nil
}
