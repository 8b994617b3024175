"""The clients, each as a tool would use it: one request that asks for a row, and an error unless it went well.

Each is made anew for a row, with its defaults but for the time it waits. The client's own repeats are left on.
"""

import json
import warnings
from contextlib import asynccontextmanager, contextmanager
from functools import cache

import aiohttp
import anthropic
import botocore.session
import httpx
import openai
import requests
import stripe
import urllib3

WAIT = 0.3
"""Seconds that a client waits."""
CERTIFICATES = httpx.create_ssl_context()
"""Made once: reading the authorities takes longer than any row."""


@contextmanager
def with_httpx(url, wait=WAIT):
    with httpx.Client(timeout=wait, follow_redirects=True, verify=CERTIFICATES) as client:
        yield client, lambda: client.post(url, json={}).raise_for_status().json()


@asynccontextmanager
async def with_httpx_async(url, wait=WAIT):
    async with httpx.AsyncClient(timeout=wait, follow_redirects=True, verify=CERTIFICATES) as client:

        async def send():
            return (await client.post(url, json={})).raise_for_status().json()

        yield client, send


@contextmanager
def with_requests(url, wait=WAIT):
    with requests.Session() as session:

        def send():
            answer = session.post(url, json={}, timeout=wait)
            answer.raise_for_status()
            return answer.json()

        yield session, send


class SaidNoError(Exception):
    """As a tool over urllib3 has to raise itself."""

    def __init__(self, answer):
        super().__init__(f"HTTP {answer.status}")
        self.response, self.status = answer, answer.status


@contextmanager
def with_urllib3(url, wait=WAIT):
    with urllib3.PoolManager(timeout=wait) as manager:

        def send():
            answer = manager.request("POST", url, json={})
            if answer.status >= 400:
                raise SaidNoError(answer)
            return answer.json()

        yield manager, send


@asynccontextmanager
async def with_aiohttp(url, wait=WAIT):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=wait)) as session:

        async def send():
            async with session.post(url, json={}) as answer:
                answer.raise_for_status()
                return await answer.json()

        yield session, send


@cache
def _aws():
    session = botocore.session.Session()
    session.set_credentials("id", "secret")
    return session


@contextmanager
def with_botocore(url, wait=WAIT):
    config = botocore.config.Config(connect_timeout=wait, read_timeout=wait)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # botocore's own use of utcnow()
        client = _aws().create_client("dynamodb", "us-east-1", endpoint_url=url, config=config)
        yield client, lambda: client.put_item(TableName="orders", Item={"id": {"S": "ord_1"}})
        client.close()


MESSAGES = [{"role": "user", "content": "hello"}]


@contextmanager
def with_openai(url, wait=WAIT):
    with openai.OpenAI(api_key="sk-none", base_url=url, timeout=wait) as client:
        yield client, lambda: client.chat.completions.create(model="m", messages=MESSAGES)


@asynccontextmanager
async def with_openai_async(url, wait=WAIT):
    async with openai.AsyncOpenAI(api_key="sk-none", base_url=url, timeout=wait) as client:
        yield client, lambda: client.chat.completions.create(model="m", messages=MESSAGES)


@contextmanager
def with_anthropic(url, wait=WAIT):
    with anthropic.Anthropic(api_key="sk-none", base_url=url, timeout=wait) as client:
        yield client, lambda: client.messages.create(model="m", messages=MESSAGES, max_tokens=1)


@contextmanager
def with_stripe(url, wait=WAIT):
    http = stripe.RequestsClient(timeout=wait)
    client = stripe.StripeClient("sk_test_none", base_addresses={"api": url}, http_client=http, max_network_retries=2)
    yield http, lambda: json.loads(str(client.v1.customers.create({"name": "Ann"})))
    http.close()


SYNC = {
    "httpx": with_httpx,
    "requests": with_requests,
    "urllib3": with_urllib3,
    "botocore": with_botocore,
    "openai": with_openai,
    "anthropic": with_anthropic,
    "stripe": with_stripe,
}
ASYNC = {"httpx async": with_httpx_async, "aiohttp": with_aiohttp, "openai async": with_openai_async}
CLIENTS = SYNC | ASYNC
