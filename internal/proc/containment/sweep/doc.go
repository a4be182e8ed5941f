// Package sweep finds and kills the descendants of dead children, even if they left their session, parents and
// environment: they still bear a mark, see [Marks]. It imports little, because the guardian runs before the packages of
// a host are initialised.
package sweep

// CookieVar is the environment variable with a child's mark, which descendants inherit until they clear it. If a host
// runs inside an extension of another host, the value has one mark per host, outermost first, separated by blanks. By
// it a host finds the descendants of the inner host, whose limit marks differ from its own, and processes on systems
// without limit marks.
const CookieVar = "EXTHOST_COOKIE"
