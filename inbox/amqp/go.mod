module github.com/ibid-go/ibid/inbox/amqp

go 1.26.0

require github.com/ibid-go/ibid v0.0.0

require github.com/rabbitmq/amqp091-go v1.16.0

replace github.com/ibid-go/ibid => ../..
