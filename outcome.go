package oncekeeper

// Limits of what a settlement carries, in bytes.
const (
	MaxContentTypeBytes = 255
	MaxResourceBytes    = 512
	// MaxMetadataEntries and MaxMetadataBytes bound a response's metadata, names
	// and values together.
	MaxMetadataEntries = 64
	MaxMetadataBytes   = 16 << 10
	// MaxStatusMessageBytes bounds a status's message, and MaxStatusDetails the
	// number of its details, whose bytes share the policy's bound on a response.
	MaxStatusMessageBytes = 8 << 10
	MaxStatusDetails      = 64
)

// Outcome is how an operation ended: exactly one of Response and Status is set.
type Outcome struct {
	Response *Response
	Status   *Status
	Origin   Origin
	// Token and Attempt are of the attempt that the outcome settled.
	Token   int64
	Attempt int32
	// Settled is when, and Expires until when it is replayed.
	Settled Instant
	Expires Instant
	// TraceParent is the W3C traceparent of the span in which that attempt was begun;
	// empty where it named none, or an operator said how it ended.
	TraceParent string
}

// Response is what a completed operation answered, kept byte for byte.
type Response struct {
	Body []byte
	// ContentType says what Body is: a media type, or a protobuf type URL.
	ContentType string
	Metadata    []MetadataEntry
	// Omitted: the operation ran, but its body was too large to keep.
	Omitted bool
	// StatusCode is an HTTP status line's code; 0 elsewhere.
	StatusCode int32
	// Resource is a stable pointer to what the operation made ("charges/ch_1").
	Resource string
}

// MetadataEntry is one header or trailer of a response.
type MetadataEntry struct {
	Kind  MetadataKind
	Name  string
	Value []byte
}

// MetadataKind says where a metadata entry belongs.
type MetadataKind uint8

// The kinds of metadata.
const (
	MetadataHeader  MetadataKind = 1
	MetadataTrailer MetadataKind = 2
)

// Status is a failure: google.rpc.Status with each detail an encoded
// google.protobuf.Any.
type Status struct {
	// Code is a canonical gRPC code, never 0 (OK).
	Code    int32
	Message string
	Details [][]byte
}

// Origin says who settled.
type Origin uint8

// The origins of an outcome.
const (
	// OriginAttempt: the attempt that ran it.
	OriginAttempt Origin = 1
	// OriginOperator: a person, by ResolveRecord.
	OriginOperator Origin = 2
	// OriginExhausted: its attempts were used up.
	OriginExhausted Origin = 3
)
