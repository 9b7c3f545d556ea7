"""What generated products are made of: departments, kinds of products, attributes, options and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind of product.

    Attributes:
        noun: What one is called.
        query: The search it is found with, the plural.
        path: Category path below the department's first part.
        axes: Option axes.
        prices: Usual range of prices in dollars.
        uses: What titles say it is for.
    """

    noun: str
    query: str
    path: str
    axes: tuple[str, ...]
    prices: tuple[int, int]
    uses: tuple[str, ...]


class Department(NamedTuple):
    """One department: first part of its category paths, what its products may be called, and their kinds."""

    path: str
    attributes: tuple[str, ...]
    kinds: tuple[Kind, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


AXES: Final[Mapping[str, tuple[str, ...]]] = {
    "color": _words(
        "black, white, navy blue, burgundy, dark green, light grey, rose gold, beige, khaki, coral, teal, mustard,"
        "lavender, charcoal, ivory, brown, hot pink, black | white, sky blue, olive"
    ),
    "size": _words("x-small, small, medium, large, x-large, xx-large, 3x-large"),
    "shoe size": _words("5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 10, 11, 12 wide"),
    "fit type": _words("men, women, youth, big & tall"),
    "style": _words("classic, modern, wall mount, desk mount, set of 2, deluxe, travel, starter kit"),
    "dimensions": _words('12" x 18", 16" x 24", 24" x 36", 2\' x 3\', 5\' x 7\', 8\' x 10\', 40" round'),
    "capacity": _words("16 gb, 32 gb, 64 gb, 128 gb, 256 gb, 512 gb, 1 tb"),
    "length": _words("3 feet, 6 feet, 10 feet, 15 feet, 25 feet"),
    "flavor name": _words(
        "vanilla, dark chocolate, crème brûlée, sea salt, honey mustard, jalapeño lime, peanut butter, mango chili,"
        "maple pecan, original"
    ),
    "pack size": _words(
        "4 ounce (pack of 1), 4 ounce (pack of 6), 8 ounce (pack of 2), 8 ounce (pack of 12),"
        "1 pound (pack of 1), 2 pound (pack of 3)"
    ),
    "scent": _words("lavender & sage, citrus, unscented, rosé, eucalyptus mint, coconut, cedar & musk, green tea"),
    "item count": _words("1 count, 2 count, 3 count, 6 count, 12 count"),
    "shade": _words("01 porcelain, 02 ivory, 03 natural beige, 04 warm honey, 05 almond, 06 café, 07 espresso"),
}
"""Axis -> values, as pages show them."""

_CLOTHES = ("color", "size")
_SHOES = ("color", "shoe size")
_HOME = ("color", "dimensions")
_FOOD = ("flavor name", "pack size")
_CARE = ("scent", "item count")

DEPARTMENTS: Final[Mapping[str, Department]] = {
    "fashion": Department(
        "Clothing, Shoes & Jewelry",
        _words(
            "machine wash, hand wash, slim fit, loose fit, regular fit, long sleeve, short sleeve, elastic waist,"
            "button closure, drawstring closure, moisture wicking, quick drying, stretch fabric, tummy control,"
            "wide leg, high waist, rubber sole, arch support, memory foam, non slip, fleece lined, cotton spandex,"
            "dry clean, everyday wear, wash cold, water resistant"
        ),
        (
            Kind("hoodie", "men's hoodies", "Men › Clothing › Hoodies", _CLOTHES, (18, 60), uses=("gym", "winter")),
            Kind("polo shirt", "men's polos", "Men › Clothing › Shirts", _CLOTHES, (12, 45), uses=("golf", "work")),
            Kind(
                "cardigan", "women's cardigans", "Women › Clothing › Sweaters", _CLOTHES, (20, 70), uses=("office",)
            ),
            Kind(
                "maxi dress", "women's dresses", "Women › Clothing › Dresses", _CLOTHES, (18, 80), uses=("party",)
            ),
            Kind(
                "jogger",
                "men's joggers",
                "Men › Clothing › Pants",
                (*_CLOTHES, "fit type"),
                (15, 50),
                uses=("running",),
            ),
            Kind(
                "yoga legging", "women's leggings", "Women › Clothing › Active", _CLOTHES, (14, 48), uses=("yoga",)
            ),
            Kind(
                "walking shoe",
                "women's walking shoes",
                "Women › Shoes › Athletic",
                _SHOES,
                (25, 95),
                uses=("travel",),
            ),
            Kind("work boot", "men's boots", "Men › Shoes › Boots", _SHOES, (45, 180), uses=("rain", "hiking")),
            Kind("pajama set", "women's sleepwear", "Women › Clothing › Sleep", _CLOTHES, (16, 55), uses=("home",)),
            Kind(
                "tank top", "men's t-shirts & tanks", "Men › Clothing › Tanks", _CLOTHES, (9, 30), uses=("summer",)
            ),
        ),
    ),
    "beauty": Department(
        "Beauty & Personal Care",
        _words(
            "cruelty free, sulfate free, paraben free, alcohol free, fragrance free, long lasting, easy to use,"
            "natural ingredients, dry skin, sensitive skin, oily hair, anti aging, fine lines, dark circles,"
            "hair growth, damaged hair, dermatologist tested, non toxic, travel size, coconut oil, tea tree,"
            "hyaluronic acid, seed oil, clinically proven"
        ),
        (
            Kind("shampoo", "hair shampoos", "Hair Care › Shampoo", _CARE, (7, 38), uses=("curls", "men")),
            Kind(
                "face serum",
                "face serums",
                "Skin Care › Face › Serums",
                ("item count", "style"),
                (11, 60),
                uses=("night",),
            ),
            Kind("body lotion", "body lotions", "Skin Care › Body › Lotions", _CARE, (6, 32), uses=("winter",)),
            Kind(
                "foundation", "face foundations", "Makeup › Face › Foundation", ("shade",), (8, 45), uses=("stage",)
            ),
            Kind(
                "lipstick",
                "lipsticks",
                "Makeup › Lips › Lipstick",
                ("shade", "item count"),
                (5, 28),
                uses=("parties",),
            ),
            Kind(
                "toothbrush",
                "electric toothbrushes",
                "Oral Care › Toothbrushes",
                ("color", "style"),
                (9, 90),
                uses=("kids",),
            ),
            Kind("hair mask", "hair treatments", "Hair Care › Treatments", _CARE, (8, 35), uses=("weddings",)),
            Kind(
                "makeup brush",
                "makeup brushes",
                "Tools › Brushes",
                ("color", "item count"),
                (6, 30),
                uses=("beginners",),
            ),
            Kind("deodorant", "deodorants", "Deodorants › Sticks", _CARE, (5, 24), uses=("sports",)),
            Kind(
                "eye cream",
                "eye creams",
                "Skin Care › Eyes › Creams",
                ("item count", "style"),
                (9, 55),
                uses=("mornings",),
            ),
        ),
    ),
    "garden": Department(
        "Home & Kitchen",
        _words(
            "easy to clean, easy assembly, space saving, heavy duty, solid wood, stainless steel, faux leather,"
            "engineered wood, water proof, machine washable, non slip, fade resistant, king size, twin size,"
            "living room, dining room, storage space, height adjustable, eco friendly, mid century, high density,"
            "memory foam, super soft, tempered glass, coated steel"
        ),
        (
            Kind(
                "floor lamp",
                "floor lamps",
                "Lighting › Lamps › Floor Lamps",
                ("color", "style"),
                (28, 180),
                uses=("reading",),
            ),
            Kind("area rug", "area rugs", "Home Décor › Rugs", _HOME, (25, 260), uses=("hallways",)),
            Kind(
                "accent chair",
                "accent chairs",
                "Furniture › Living Room › Chairs",
                ("color",),
                (90, 420),
                uses=("bedrooms",),
            ),
            Kind(
                "blackout curtain",
                "window coverings",
                "Home Décor › Curtains",
                _HOME,
                (14, 80),
                uses=("nurseries",),
            ),
            Kind(
                "bookcase",
                "bookcases",
                "Furniture › Office › Bookcases",
                ("color", "style"),
                (45, 260),
                uses=("offices",),
            ),
            Kind("throw blanket", "throw blankets", "Bedding › Blankets", _HOME, (15, 75), uses=("sofas",)),
            Kind(
                "coffee table",
                "coffee tables",
                "Furniture › Living Room › Tables",
                ("color",),
                (60, 340),
                uses=("lofts",),
            ),
            Kind(
                "wall mirror", "decorative mirrors", "Home Décor › Mirrors", _HOME, (22, 190), uses=("entryways",)
            ),
            Kind(
                "storage basket",
                "baskets and storage",
                "Storage › Baskets",
                ("color", "style"),
                (10, 60),
                uses=("toys",),
            ),
            Kind(
                "bar stool",
                "bar stools",
                "Furniture › Kitchen › Stools",
                ("color", "style"),
                (55, 320),
                uses=("patios",),
            ),
        ),
    ),
    "electronics": Department(
        "Electronics",
        _words(
            "fast charging, wireless charging, noise cancelling, high speed, plug and play, easy to install,"
            "carrying case, batteries included, hands free, stereo sound, high definition, ultra hd, gold plated,"
            "water proof, dust proof, heavy duty, quad core, usb port, blu ray, aluminum alloy,"
            "compatible with ios,"
            "light weight, glass screen, motion detection, optical zoom"
        ),
        (
            Kind(
                "bluetooth speaker",
                "bluetooth speakers",
                "Audio › Speakers",
                ("color",),
                (18, 160),
                uses=("camping",),
            ),
            Kind(
                "charging cable", "usb cables", "Accessories › Cables", ("color", "length"), (6, 28), uses=("cars",)
            ),
            Kind(
                "flash drive",
                "flash drives",
                "Storage › Flash Drives",
                ("color", "capacity"),
                (7, 90),
                uses=("students",),
            ),
            Kind(
                "security camera",
                "security cameras",
                "Cameras › Security",
                ("style",),
                (25, 220),
                uses=("garages",),
            ),
            Kind("phone case", "phone cases", "Phones › Cases", ("color", "style"), (8, 40), uses=("travel",)),
            Kind(
                "headset",
                "headphones",
                "Audio › Headphones",
                ("color", "style"),
                (15, 240),
                uses=("gaming", "calls"),
            ),
            Kind(
                "smart watch",
                "smart watches",
                "Wearables › Watches",
                ("color", "style"),
                (35, 330),
                uses=("swimming",),
            ),
            Kind("tablet", "tablets", "Computers › Tablets", ("color", "capacity"), (70, 620), uses=("drawing",)),
            Kind(
                "hdmi adapter", "video adapters", "Accessories › Adapters", ("length",), (7, 45), uses=("meetings",)
            ),
            Kind("power bank", "power banks", "Phones › Batteries", ("color",), (14, 75), uses=("flights",)),
        ),
    ),
    "grocery": Department(
        "Grocery & Gourmet Food",
        _words(
            "gluten free, sugar free, dairy free, nut free, soy free, non gmo, keto friendly, low carb, low sodium,"
            "plant based, usda organic, high protein, kosher certified, ready to eat, individually wrapped,"
            "artificial colors, low calorie, whole grain, fair trade, freeze dried, hand crafted, gift basket,"
            "old fashioned, resealable bag, caffeine free"
        ),
        (
            Kind("protein bar", "protein bars", "Snacks › Bars", _FOOD, (9, 45), uses=("hiking",)),
            Kind("granola", "breakfast cereals", "Breakfast › Granola", _FOOD, (6, 32), uses=("families",)),
            Kind("trail mix", "snack mixes", "Snacks › Mixes", _FOOD, (7, 36), uses=("school",)),
            Kind("hot sauce", "sauces", "Pantry › Sauces", _FOOD, (5, 30), uses=("tacos",)),
            Kind(
                "coffee pod",
                "coffee pods",
                "Beverages › Coffee",
                ("pack size", "style"),
                (10, 62),
                uses=("offices",),
            ),
            Kind("popcorn", "popcorns", "Snacks › Popcorn", _FOOD, (5, 28), uses=("movies",)),
            Kind("green tea", "teas", "Beverages › Tea", _FOOD, (6, 34), uses=("evenings",)),
            Kind("beef jerky", "meat snacks", "Snacks › Jerky", _FOOD, (8, 48), uses=("lunches",)),
            Kind("pasta", "pastas", "Pantry › Pasta", ("pack size",), (4, 26), uses=("soups",)),
            Kind("truffle", "chocolates", "Snacks › Chocolate", _FOOD, (8, 55), uses=("holidays",)),
        ),
    ),
}
"""Department -> its kinds and attributes."""

SYLLABLES: Final = _words(
    "ba, be, bo, bri, ca, cor, da, del, do, el, fa, fen, fi, go, gri, ha, hel, il, jo, ka, ken, lo, lu, ma, mer,"
    "mi, na, nel, no, or, pa, per, po, ra, ren, ri, ro, sa, sel, so, ta, tel, tri, u, va, ven, vi, wa, wil,"
    "xa, yo, zen"
)
SENTENCES: Final = (
    "This {noun} is made for {use}.",
    "People who need {attribute} will like it.",
    "{attribute} and made to last, it arrives ready to use.",
    "We test every {noun} before it leaves the house.",
    "A good present for anyone who cares about {attribute}.",
    "Choose from several kinds of {axis}.",
)
OPENINGS: Final = (
    "i am looking for a {attributes} {noun}{options}",
    "i need a {noun} that is {attributes}{options}",
    "i want to buy a {attributes} {noun}{options}",
    "find me a {noun} which is {attributes}{options}",
    "i'm looking for {query} that are {attributes}{options}",
)
"""Instructions of generated human goals."""
SHORT_OPENING: Final = "{attributes} {noun}{options}"
"""The same in a catalogue of short pages."""
