// Package sweep finds and kills the descendants of dead children, also those that left their
// session, their parents and their environment: all bear a mark, see [Marks].
//
// It imports little, because a guardian does not wait for the packages of a host.
package sweep

// CookieVar is the variable in the environment of each child that descendants inherit until
// they clear it. Its value is one mark. If a host runs inside an extension of another host, it
// is one mark per host, outermost first, separated by blanks. By it a host finds the descendants of
// such an inner host, whose marks as a limit are not its own, and processes on a system without limits.
const CookieVar = "EXTHOST_COOKIE"
