module github.com/ibid-go/ibid/internal/integration

go 1.26

require github.com/ibid-go/ibid v0.0.0

replace github.com/ibid-go/ibid => ../..
