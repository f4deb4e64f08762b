package ibid

// Over returns an engine like e over another store, without asking that store
// for anything.
func (e *Engine) Over(store Store) *Engine {
	o := &Engine{store: store, opts: e.opts, sealer: e.sealer}
	o.digests.secret = e.digests.secret
	return o
}

// KeyDigest digests key without an engine.
func KeyDigest(secret []byte, key Key) Digest {
	d := digester{secret: secret}
	return d.sum(purposeKey, key.Scope, key.ID)
}

// EngineStore returns the store of e.
func EngineStore(e *Engine) Store { return e.store }
