// Package sweep finds and kills the descendants of dead children, even if they left their session, parents and
// environment: they still bear a mark, see [Marks]. It imports little, because the guardian runs before the packages of
// a host are initialised.
package sweep

// CookieVar is the environment variable with a child's mark, which descendants inherit until they
// clear it. If a host runs inside an extension of another host, the value has one mark per host,
// outermost first, separated by blanks. The outer host needs it to find the descendants of the
// inner host, which have other limit marks; on systems without limit marks, every host needs it.
const CookieVar = "EXTHOST_COOKIE"
