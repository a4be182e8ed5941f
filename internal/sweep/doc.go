// Package sweep finds and kills the descendants of dead children, also those that left their
// session.
//
// It imports little, because a guardian does not wait for the packages of a host.
package sweep

// CookieVar is the variable in the environment of each child that descendants inherit until
// they clear it. Its value is one mark. If a host runs inside an extension of another host, it
// is one mark per host, outermost first, separated by blanks.
const CookieVar = "EXTHOST_COOKIE"
