"""Orders over HTTP: `NAMESRV_ADDR=localhost:9876 fastapi dev examples/fastapi_app.py`.

The application answers when the broker has the message; a consumer in the same process, or in any
other, works on it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from emberq.aio import Client, Producer, PushConsumer, ReceivedMessage
from emberq.errors import EmberqError


class Order(BaseModel):
    number: int
    customer: str


shipped: list[int] = []


async def ship(message: ReceivedMessage) -> None:
    order: Order = message.value
    shipped.append(order.number)


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    # Made here, in the loop and the process that use them; NAMESRV_ADDR says where the cluster is.
    client = Client()
    consumer = PushConsumer(
        "shipping", client=client, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.add_handler("web-orders", ship, codec=Order)
    async with client, Producer("web-shop", client=client, codec=Order) as producer, consumer:
        app.state.client, app.state.producer = client, producer
        yield


app = FastAPI(lifespan=life)


@app.post("/orders", status_code=202)
async def order(new: Order, request: Request) -> dict[str, str]:
    try:
        result = await request.app.state.producer.send("web-orders", new, keys=str(new.number))
    except EmberqError as error:
        raise HTTPException(503, str(error)) from error
    return {"message_id": result.message_id}


@app.get("/shipped")
async def list_shipped() -> list[int]:
    return shipped


@app.get("/health")
async def health(request: Request) -> dict[str, bool]:
    is_healthy = request.app.state.client.health().is_healthy
    if not is_healthy:
        raise HTTPException(503, "no name server or no broker can be reached")
    return {"healthy": True}
